# Patch sites in builds of CMake (3.16 or newer).
#
#   include(node_modules/elftrace/share/cmake/Elftrace.cmake)
#   elftrace_verify(program)                     # after each link; a wrong file fails the build
#   elftrace_verify(driver OPTIONS --strict --require 100)
#   elftrace_patch(program OUTPUT program.quiet OPTIONS --untrace)   # a patched copy beside it
#
# ELFTRACE_COMMAND is the command: found in PATH and in node_modules, or given with -D.

# Run by the builds themselves: cmake -DELFTRACE_FILE=… -P Elftrace.cmake -- COMMAND ARGS…
if(CMAKE_SCRIPT_MODE_FILE)
  set(words)
  set(is_own FALSE)
  math(EXPR last "${CMAKE_ARGC} - 1")
  foreach(i RANGE ${last})
    if(is_own)
      list(APPEND words "${CMAKE_ARGV${i}}")
    elseif(CMAKE_ARGV${i} STREQUAL "--")
      set(is_own TRUE)
    endif()
  endforeach()
  execute_process(COMMAND ${words} RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    # Otherwise the next build would find it up to date.
    file(REMOVE "${ELFTRACE_FILE}")
    message(FATAL_ERROR "elftrace ended with ${status}: ${ELFTRACE_FILE} is removed")
  endif()
  return()
endif()

cmake_minimum_required(VERSION 3.16)
find_program(ELFTRACE_COMMAND elftrace HINTS "${CMAKE_CURRENT_LIST_DIR}/../../../.bin" DOC "the command elftrace")
set(ELFTRACE_SCRIPT "${CMAKE_CURRENT_LIST_FILE}" CACHE INTERNAL "")

function(elftrace_require_target_ target)
  if(NOT TARGET ${target})
    message(FATAL_ERROR "elftrace: ${target} is no target")
  endif()
  get_target_property(type ${target} TYPE)
  if(NOT type MATCHES "^(EXECUTABLE|(STATIC|SHARED|MODULE)_LIBRARY)$")
    message(FATAL_ERROR "elftrace: ${target} is no program and no library with a file (${type})")
  endif()
  if(NOT ELFTRACE_COMMAND)
    message(FATAL_ERROR "elftrace: the command is not in PATH; set ELFTRACE_COMMAND")
  endif()
endfunction()

# elftrace_verify(TARGET [OPTIONS …]): verifies the file of the target after each of its links.
function(elftrace_verify target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "OPTIONS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "elftrace_verify: '${arg_UNPARSED_ARGUMENTS}': write OPTIONS in front of options")
  endif()
  elftrace_require_target_(${target})
  add_custom_command(TARGET ${target} POST_BUILD
    COMMAND "${CMAKE_COMMAND}" "-DELFTRACE_FILE=$<TARGET_FILE:${target}>" -P "${ELFTRACE_SCRIPT}" --
            ${ELFTRACE_COMMAND} verify ${arg_OPTIONS} "$<TARGET_FILE:${target}>"
    COMMENT "Verifying patch sites of ${target}" VERBATIM)
endfunction()

# elftrace_patch(TARGET OUTPUT FILE OPTIONS …): makes FILE of the target's file, as part of all.
function(elftrace_patch target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "OUTPUT" "OPTIONS")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_OUTPUT OR NOT arg_OPTIONS)
    message(FATAL_ERROR "elftrace_patch(TARGET OUTPUT FILE OPTIONS …)")
  endif()
  elftrace_require_target_(${target})
  get_filename_component(output "${arg_OUTPUT}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_BINARY_DIR}")
  add_custom_command(OUTPUT "${output}"
    COMMAND ${ELFTRACE_COMMAND} patch "$<TARGET_FILE:${target}>" ${arg_OPTIONS} -o "${output}"
    DEPENDS ${target} "$<TARGET_FILE:${target}>"
    COMMENT "Patching ${target}" VERBATIM)
  string(MAKE_C_IDENTIFIER "${target}_${arg_OUTPUT}" name)
  add_custom_target(elftrace_${name} ALL DEPENDS "${output}")
endfunction()
