# Compiler settings shared by every target of the project, in one interface target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

find_program(SPOOL_CCACHE ccache)
if(SPOOL_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${SPOOL_CCACHE}")
endif()

add_library(spool_options INTERFACE)
# -fno-trapping-math lets g++ vectorise clamped polynomials. -ffast-math is forbidden: it reorders sums and breaks the rounding tricks.
target_compile_options(spool_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wno-missing-field-initializers -Wnon-virtual-dtor -Woverloaded-virtual
                       -fno-trapping-math -fno-math-errno)
if(SPOOL_WERROR)
  target_compile_options(spool_options INTERFACE -Werror)
endif()
if(SPOOL_SANITIZE)
  target_compile_options(spool_options INTERFACE -fsanitize=${SPOOL_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(spool_options INTERFACE -fsanitize=${SPOOL_SANITIZE})
endif()
option(SPOOL_FUZZ "Build the libFuzzer targets of tests/fuzz in place of the tests that run their corpora (needs clang++)" OFF)
if(SPOOL_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "SPOOL_FUZZ needs clang++: -DCMAKE_CXX_COMPILER=clang++")
  endif()
  target_compile_options(spool_options INTERFACE -fsanitize=fuzzer-no-link,address -fno-omit-frame-pointer -g)
endif()
