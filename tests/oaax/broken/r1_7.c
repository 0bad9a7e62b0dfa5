/* Rule R1-7: among many requests one output gets lost. */
#define FAULT_LOSES_AN_OUTPUT
#include "sound1.h"
