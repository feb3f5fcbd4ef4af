// What the unit tests include, compiled once for all of them.
#include <gtest/gtest.h>

#include "tools/precompiled.h"
