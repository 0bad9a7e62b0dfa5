/* Rule R2-6: init prints a banner. */
#define FAULT_PRINTS
#include "sound2.h"
