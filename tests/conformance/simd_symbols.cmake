# cmake -DNM=... -DOBJECTS=... -P simd_symbols.cmake: fails if one of the objects defines a symbol that the linker merges with
# those of other files. Such a function, compiled for a wide instruction set, would run on processors that do not have it.
if(NOT OBJECTS)
  message(FATAL_ERROR "no objects to look at")
endif()
foreach(object IN LISTS OBJECTS)
  execute_process(COMMAND ${NM} -C --defined-only ${object} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^\n]* [VWu] [^\n]*" merged "${symbols}")
  list(FILTER merged EXCLUDE REGEX "DW\\.ref\\.__gxx_personality")
  if(merged)
    message(FATAL_ERROR "${object} defines ${merged}")
  endif()
endforeach()
