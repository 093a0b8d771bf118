# The two functions every folder uses, and the flags all of them share.
include(GoogleTest)
find_package(Threads REQUIRED)

add_library(boreas_flags INTERFACE)
target_include_directories(boreas_flags INTERFACE ${CMAKE_SOURCE_DIR}/src)
# -ffp-contract=off: a multiply-add is fused only where the source says so; bits must not depend on the compiler (design: equal bits).
target_compile_options(boreas_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Werror -ffp-contract=off)
target_link_libraries(boreas_flags INTERFACE Threads::Threads)
if(BOREAS_FUZZ)
  add_custom_target(boreas_fuzzers)
endif()
if(BOREAS_SANITIZE)
  target_compile_options(boreas_flags INTERFACE -fsanitize=${BOREAS_SANITIZE} -fno-omit-frame-pointer -g1)
  target_link_options(boreas_flags INTERFACE -fsanitize=${BOREAS_SANITIZE})
  if(BOREAS_SANITIZE MATCHES "undefined")  # clang 14 cannot emit that check for coroutines (Asio's, in src/server)
    target_compile_options(boreas_flags INTERFACE $<$<CXX_COMPILER_ID:Clang>:-fno-sanitize=function>)
  endif()
  if(BOREAS_SANITIZE MATCHES "thread")
    target_compile_options(boreas_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>)
  endif()
endif()

# Most of the time of a small file goes into other people's headers, so those are compiled once: std for all, Boost.JSON and GoogleTest for those who
# use them. Files with options of their own (instruction sets) cannot share them and say SKIP_PRECOMPILE_HEADERS.
find_package(Boost 1.81 REQUIRED COMPONENTS json)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/precompiled.cc CONTENT "")
set(BOREAS_STD_HEADERS <algorithm> <array> <atomic> <chrono> <cmath> <condition_variable> <cstdint> <cstring> <deque> <fstream> <functional> <iostream>
    <limits> <map> <memory> <mutex> <optional> <set> <span> <sstream> <string> <string_view> <thread> <unordered_map> <utility> <variant> <vector>)
function(boreas_precompiled name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;OPTIONS;HEADERS" ${ARGN})
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/precompiled.cc)  # empty: a target needs a source
  target_link_libraries(${name} PRIVATE boreas_flags ${ARG_DEPENDS})
  target_compile_options(${name} PRIVATE ${ARG_OPTIONS} $<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>)
  target_precompile_headers(${name} PRIVATE ${BOREAS_STD_HEADERS} ${ARG_HEADERS})
endfunction()
boreas_precompiled(boreas_std_headers)
boreas_precompiled(boreas_json_headers DEPENDS Boost::json HEADERS <boost/json.hpp>)
# The code under test is optimised; test code only has to compile quickly. At -O1 g++ 12 takes its own std::string for out of bounds.
set(BOREAS_QUIET_OPTIONS $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds> $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow>
    $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overread> $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict> $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
if(NOT BOREAS_OPTIMIZE STREQUAL "-O2")
  target_compile_options(boreas_flags INTERFACE ${BOREAS_QUIET_OPTIONS})
endif()

# With a sanitizer, code is worth optimising only where tests compute much: at -O0 it compiles in a third of the time and, less inlined, has more to
# check (CPU seconds under ASan, -O1 and -O0: command_line 24 and 8, regex_test 13 and 4.5). There, these words of the functions below say more.
# WIRING: a library that computes little, and uses Boost.JSON: not optimised. OPTIMIZED: tests that compute much themselves; others are not optimised.
# FUZZED: a library whose coverage steers the fuzzers; in others the counters would serve nothing and cost up to a fifth of the compile time.
set(BOREAS_TEST_OPTIONS -O1 ${BOREAS_QUIET_OPTIONS})
if(BOREAS_TESTS)
  find_package(GTest REQUIRED)
  boreas_precompiled(boreas_test_headers DEPENDS Boost::json GTest::gmock GTest::gtest OPTIONS ${BOREAS_TEST_OPTIONS}
                     HEADERS <boost/json.hpp> <gmock/gmock.h> <gtest/gtest.h>)
endif()
if(BOREAS_SANITIZE)
  boreas_precompiled(boreas_wiring_headers DEPENDS Boost::json OPTIONS -O0 HEADERS <boost/json.hpp>)
  if(BOREAS_TESTS)
    boreas_precompiled(boreas_unoptimized_test_headers DEPENDS Boost::json GTest::gmock GTest::gtest OPTIONS -O0
                       HEADERS <boost/json.hpp> <gmock/gmock.h> <gtest/gtest.h>)
  endif()
endif()
if(BOREAS_FUZZ)
  boreas_precompiled(boreas_fuzzed_headers DEPENDS Boost::json OPTIONS -fsanitize=fuzzer-no-link HEADERS <boost/json.hpp>)
endif()

# boreas_reuse_headers(TARGET [WIRING] [FUZZED] dependencies...): options for that kind of code, and the precompiled headers that fit.
function(boreas_reuse_headers target)
  if("WIRING" IN_LIST ARGN AND BOREAS_SANITIZE)
    target_compile_options(${target} PRIVATE -O0)
    target_precompile_headers(${target} REUSE_FROM boreas_wiring_headers)
  elseif("FUZZED" IN_LIST ARGN AND BOREAS_FUZZ)
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
    target_precompile_headers(${target} REUSE_FROM boreas_fuzzed_headers)
  elseif("Boost::json" IN_LIST ARGN)
    target_precompile_headers(${target} REUSE_FROM boreas_json_headers)
  else()
    target_precompile_headers(${target} REUSE_FROM boreas_std_headers)
  endif()
endfunction()

# Code around tests and benchmarks that is no test itself. With precompiled headers g++ 12 takes its own std::string for out of bounds here too.
function(boreas_support_code target)
  boreas_reuse_headers(${target} WIRING Boost::json)
  target_compile_options(${target} PRIVATE ${BOREAS_QUIET_OPTIONS})
endfunction()

# boreas_library(NAME [WIRING | FUZZED] [FULL] [OPTIMIZED] [DEPENDS targets...] [PRIVATE_DEPENDS targets...] [SUBFOLDERS names...]): static library
# boreas_NAME of this folder's *.cc files (and of the sub-folders named), without *_test.cc and *_fuzz.cc; its unit tests become NAME_tests.
function(boreas_library name)
  cmake_parse_arguments(ARG "WIRING;FUZZED;FULL;OPTIMIZED" "" "DEPENDS;PRIVATE_DEPENDS;SUBFOLDERS;TEST_DEPENDS" ${ARGN})
  set(patterns ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  foreach(sub ${ARG_SUBFOLDERS})
    list(APPEND patterns ${CMAKE_CURRENT_SOURCE_DIR}/${sub}/*.cc)
  endforeach()
  file(GLOB all CONFIGURE_DEPENDS ${patterns})
  set(tests ${all})
  set(sources ${all})
  list(FILTER sources EXCLUDE REGEX "_(test|fuzz)\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  if(sources)
    add_library(boreas_${name} STATIC ${sources})
    target_link_libraries(boreas_${name} PUBLIC boreas_flags ${ARG_DEPENDS} PRIVATE ${ARG_PRIVATE_DEPENDS})
    set(kind)
    if(ARG_WIRING)
      set(kind WIRING)
    elseif(ARG_FUZZED)
      set(kind FUZZED)
    endif()
    boreas_reuse_headers(boreas_${name} ${kind} ${ARG_DEPENDS} ${ARG_PRIVATE_DEPENDS})
  else()
    add_library(boreas_${name} INTERFACE)
    target_link_libraries(boreas_${name} INTERFACE boreas_flags ${ARG_DEPENDS})
  endif()
  if(BOREAS_TESTS AND tests)
    set(words)
    if(ARG_FULL)
      list(APPEND words FULL)
    endif()
    if(ARG_OPTIMIZED)
      list(APPEND words OPTIMIZED)
    endif()
    boreas_test(${name}_tests ${words} SOURCES ${tests} DEPENDS boreas_${name} ${ARG_PRIVATE_DEPENDS} ${ARG_TEST_DEPENDS})
  endif()
endfunction()

# boreas_test(NAME [FULL] [OPTIMIZED] SOURCES files... DEPENDS targets... [LABELS labels...]): a GoogleTest binary whose cases ctest runs one by one.
# FULL: it has suites whose names end in Full, larger versions of other cases; they get the label full instead, which only ./check --full runs.
# Tests get the source folder as BOREAS_SOURCE_DIR (fixtures) and run there.
function(boreas_test name)
  cmake_parse_arguments(ARG "FULL;OPTIMIZED" "TIMEOUT" "SOURCES;DEPENDS;LABELS" ${ARGN})
  if(NOT BOREAS_TESTS)
    return()
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 900)  # of a whole case, sanitizers included
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} boreas_flags Boost::json GTest::gmock GTest::gtest GTest::gtest_main)
  if(ARG_OPTIMIZED OR NOT BOREAS_SANITIZE)
    target_compile_options(${name} PRIVATE ${BOREAS_TEST_OPTIONS})
    target_precompile_headers(${name} REUSE_FROM boreas_test_headers)
  else()
    target_compile_options(${name} PRIVATE -O0)
    target_precompile_headers(${name} REUSE_FROM boreas_unoptimized_test_headers)
  endif()
  target_compile_definitions(${name} PRIVATE BOREAS_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  set(filter)
  if(ARG_FULL)
    set(filter TEST_FILTER "-*Full.*")
    gtest_discover_tests(${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} DISCOVERY_TIMEOUT 60 TEST_FILTER "*Full.*"
                         PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS full)
  endif()
  gtest_discover_tests(${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} DISCOVERY_TIMEOUT 60 ${filter}
                       PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
endfunction()

# boreas_fuzz(NAME SOURCES files... DEPENDS targets...): a libFuzzer target, clang only.
function(boreas_fuzz name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  if(NOT BOREAS_FUZZ)
    return()
  endif()
  add_executable(${name} ${ARG_SOURCES})
  add_dependencies(boreas_fuzzers ${name})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} boreas_flags)
  target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
endfunction()
