/* Rule R2-21: a short model brings the process down. */
#define FAULT_TRUSTS_MODELS
#include "sound2.h"
