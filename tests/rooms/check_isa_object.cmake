# Succeeds when every global symbol that OBJECT defines lives in its instruction set's namespace.
string(REGEX REPLACE ".*_([a-z0-9]+)\\.o$" "\\1" isa "${OBJECT}")
execute_process(COMMAND ${NM} --extern-only --defined-only --format=posix ${OBJECT}
                OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^\n]+" symbols "${symbols}")
if(NOT symbols)
  message(FATAL_ERROR "${OBJECT} defines nothing")
endif()
string(LENGTH ${isa} length)
list(FILTER symbols EXCLUDE REGEX "^_Z[^ ]*${length}${isa}")
if(symbols)
  message(FATAL_ERROR "defined with ${isa} instructions, yet visible to all: ${symbols}")
endif()
