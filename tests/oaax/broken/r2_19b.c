/* Rule R2-19b: leaving without cleanup crashes. */
#define FAULT_CRASHES_AT_THE_END
#include "sound2.h"
