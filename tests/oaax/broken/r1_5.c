/* Rule R1-5: part of a refused input is freed, and then freed again by its owner. */
#define FAULT_FREES_WHAT_IT_REFUSES
#include "sound1.h"
