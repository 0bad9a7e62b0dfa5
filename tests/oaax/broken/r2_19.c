/* Rule R2-19: the library pins itself, so that dlclose does not unmap it. */
#define FAULT_PINS_ITSELF
#include "sound2.h"
