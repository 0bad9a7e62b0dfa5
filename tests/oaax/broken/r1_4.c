/* Rule R1-4: a second model takes the place of the first. */
#define FAULT_LOADS_A_SECOND_MODEL
#include "sound1.h"
