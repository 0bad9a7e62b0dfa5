/* The control: a runtime that keeps the rules of OAAX 2.0. */
#include "sound2.h"
