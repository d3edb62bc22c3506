# Succeeds when ALLOWED can be included with the folders INCLUDES, and FORBIDDEN cannot.
list(TRANSFORM INCLUDES PREPEND -I)
function(try_include header status output)
  execute_process(COMMAND ${COMPILER} -std=c++20 -fsyntax-only ${INCLUDES} -include ${header}
                          -x c++ /dev/null
                  WORKING_DIRECTORY ${CMAKE_CURRENT_LIST_DIR}
                  RESULT_VARIABLE result ERROR_VARIABLE errors)
  set(${status} ${result} PARENT_SCOPE)
  set(${output} "${errors}" PARENT_SCOPE)
endfunction()

try_include(${ALLOWED} status errors)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${ALLOWED} should be found:\n${errors}")
endif()
try_include(${FORBIDDEN} status errors)
if(status EQUAL 0)
  message(FATAL_ERROR "${FORBIDDEN} can be included, but the room plan forbids it")
elseif(NOT errors MATCHES "${FORBIDDEN}: No such file")
  message(FATAL_ERROR "${FORBIDDEN} fails for another reason than being out of sight:\n${errors}")
endif()
