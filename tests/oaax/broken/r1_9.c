/* Rule R1-9: the outputs of two requests that lie at hand together are swapped. */
#define FAULT_SWAPS_TWO
#include "sound1.h"
