/* Rule R2-11: a refused input is freed, and then freed again by its owner. */
#define FAULT_FREES_WHAT_IT_REFUSES
#include "sound2.h"
