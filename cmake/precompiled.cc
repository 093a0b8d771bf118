// Nothing: a target needs a source for its precompiled headers, see boreas.cmake.
