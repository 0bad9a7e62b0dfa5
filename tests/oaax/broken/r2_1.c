/* Rule R2-1: a helper is exported beside the nine functions. */
#define FAULT_EXPORTS_MORE
#include "sound2.h"
