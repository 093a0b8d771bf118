# Preset cuda: the CUDA executor, compiled for sm_90a by nvcc 13 or newer. Included only with BOREAS_CUDA=ON.
file(GLOB cuda_sources ${CMAKE_SOURCE_DIR}/src/exec/cuda/*.cu)
if(NOT cuda_sources)
  message(FATAL_ERROR "BOREAS_CUDA is ON, but there is no CUDA executor in this tree")
endif()
# Machine code only: with plain 90a the PTX of every kernel is embedded too.
set(CMAKE_CUDA_ARCHITECTURES 90a-real)
if(NOT CMAKE_CUDA_COMPILER)
  find_program(CMAKE_CUDA_COMPILER nvcc HINTS $ENV{CUDA_HOME}/bin PATHS /usr/local/cuda/bin)
endif()
enable_language(CUDA)
if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 13)
  message(FATAL_ERROR "nvcc is ${CMAKE_CUDA_COMPILER_VERSION}, expected 13 or newer")
endif()
set(CMAKE_CUDA_FLAGS_RELEASE "-O3")

# The flags that all folders share are for the host compilers; nvcc gets its own below.
get_target_property(options boreas_flags INTERFACE_COMPILE_OPTIONS)
set(host_options)
foreach(option ${options})
  list(APPEND host_options "$<$<COMPILE_LANGUAGE:C,CXX>:${option}>")
endforeach()
set_target_properties(boreas_flags PROPERTIES INTERFACE_COMPILE_OPTIONS "${host_options}")

# boreas_cuda_options(TARGET): for a target with .cu files. CMake 3.25 does not know C++20 for nvcc 13: required, it fails
# to generate; not required, it says nothing, so the language is said here. The runtime is linked statically: a binary needs the driver only.
# -fmad=false: the instances of a kernel must give the same bits (docs/decisions/0008).
function(boreas_cuda_options target)
  set_target_properties(${target} PROPERTIES CUDA_RUNTIME_LIBRARY Static CUDA_STANDARD_REQUIRED OFF)
  target_compile_options(${target} PRIVATE
    "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-std=c++20 --expt-relaxed-constexpr -fmad=false -Werror all-warnings -Xcompiler=-Wall,-Wextra,-Wno-unused-parameter,-ffp-contract=off>")
endfunction()
