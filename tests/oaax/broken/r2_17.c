/* Rule R2-17: cleanup leaves a thread that waits for an output waiting. */
#define FAULT_WAKES_NOBODY
#include "sound2.h"
