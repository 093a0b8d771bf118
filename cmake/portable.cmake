# Preset portable: a binary that needs only glibc (and, with CUDA, the driver), for machines without these libraries.
# Always holds: target boreas_portable fails when the binary asks for any other shared library or is 40 MB or more.
set(Boost_USE_STATIC_LIBS ON)
set(CMAKE_FIND_LIBRARY_SUFFIXES .a .so)
add_link_options(-static-libstdc++ -static-libgcc)

function(boreas_portable_target)
  if(TARGET boreas)
    add_custom_target(boreas_portable DEPENDS boreas COMMAND ${CMAKE_COMMAND} -DBINARY=$<TARGET_FILE:boreas>
                      -P ${CMAKE_SOURCE_DIR}/cmake/portable_check.cmake)
  endif()
endfunction()
cmake_language(DEFER DIRECTORY ${CMAKE_SOURCE_DIR} CALL boreas_portable_target)
