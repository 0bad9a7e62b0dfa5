/* Rule R2-10: models get their ids from the last to the first. */
#define FAULT_IDS_REVERSED
#include "sound2.h"
