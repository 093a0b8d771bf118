# cmake -DSOURCE=tree -DOUTPUT=header -P commit.cmake: writes the commit that the tree's binary is made of, with "-dirty" if the
# tree has more than that, "unknown" where there is no git. What is not part of the binary (docs, tests, results) does not count.
# A header that says so already is left alone, so nothing is built anew.
set(commit "unknown")
set(git git --no-optional-locks -C ${SOURCE})
execute_process(COMMAND ${git} rev-parse --short=12 HEAD OUTPUT_VARIABLE head RESULT_VARIABLE failed ERROR_QUIET
                OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT failed)
  set(commit ${head})
  execute_process(COMMAND ${git} status --porcelain -- src apps cmake CMakeLists.txt CMakePresets.json OUTPUT_VARIABLE changes
                  RESULT_VARIABLE failed ERROR_QUIET)
  if(failed OR NOT changes STREQUAL "")
    string(APPEND commit "-dirty")
  endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#define BOREAS_COMMIT \"${commit}\"\n")
