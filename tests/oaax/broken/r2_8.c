/* Rule R2-8: a load that fails keeps the models before the bad one. */
#define FAULT_HALF_A_LOAD
#include "sound2.h"
