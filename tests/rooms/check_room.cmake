# Succeeds when ALLOWED can be included with the folders INCLUDES and FORBIDDEN cannot, though it
# can with the folders OTHER_INCLUDES.
function(try_include header folders status output)
  list(TRANSFORM folders PREPEND -I)
  execute_process(COMMAND ${COMPILER} -std=c++20 -fsyntax-only ${folders} -include ${header}
                          -x c++ /dev/null
                  WORKING_DIRECTORY ${CMAKE_CURRENT_LIST_DIR}
                  RESULT_VARIABLE result ERROR_VARIABLE errors)
  set(${status} ${result} PARENT_SCOPE)
  set(${output} "${errors}" PARENT_SCOPE)
endfunction()

# As GCC and as Clang says it.
set(out_of_sight "${FORBIDDEN}: No such file|'${FORBIDDEN}' file not found")

try_include(${ALLOWED} "${INCLUDES}" status errors)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${ALLOWED} should be found:\n${errors}")
endif()
# ONNX's headers want its definitions; that they are found is all that matters here.
try_include(${FORBIDDEN} "${OTHER_INCLUDES}" status errors)
if(errors MATCHES "${out_of_sight}")
  message(FATAL_ERROR "${FORBIDDEN} exists nowhere, so that hiding it proves nothing")
endif()
try_include(${FORBIDDEN} "${INCLUDES}" status errors)
if(status EQUAL 0)
  message(FATAL_ERROR "${FORBIDDEN} can be included, but the room plan forbids it")
elseif(NOT errors MATCHES "${out_of_sight}")
  message(FATAL_ERROR "${FORBIDDEN} fails for another reason than being out of sight:\n${errors}")
endif()
