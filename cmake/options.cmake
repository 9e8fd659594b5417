# spp_options: what every target of ours is compiled with. Nothing here is exported to users of libspplan.
add_library(spp_options INTERFACE)

target_include_directories(spp_options INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/generated)

# POSIX 2008 and wcwidth under -std=c11.
target_compile_definitions(spp_options INTERFACE _XOPEN_SOURCE=700)

target_compile_options(spp_options INTERFACE $<$<COMPILE_LANGUAGE:C>:
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla>)
# Cutting a message to its buffer is what snprintf is for here; gcc's warning about it depends on -O besides.
if(CMAKE_C_COMPILER_ID STREQUAL GNU)
  target_compile_options(spp_options INTERFACE $<$<COMPILE_LANGUAGE:C>:-Wno-format-truncation>)
endif()
if(SPP_WERROR)
  target_compile_options(spp_options INTERFACE $<$<COMPILE_LANGUAGE:C>:-Werror>)
endif()

if(SPP_SANITIZE)
  set(spp_sanitize_flags -fsanitize=${SPP_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_compile_options(spp_options INTERFACE $<$<COMPILE_LANGUAGE:C>:${spp_sanitize_flags}>)
  target_link_options(spp_options INTERFACE ${spp_sanitize_flags})
endif()

# The planner's innermost calls cross files: inlined into one another in a release of gcc's they take a tenth less
# (the default job as a whole process, docs/performance.md). The objects serve as others do besides, so that tests link as
# fast as ever: only programs with the property SPP_ONE_UNIT pay for it.
if(CMAKE_C_COMPILER_ID STREQUAL GNU AND NOT SPP_SANITIZE)
  set(spp_one_unit_options $<$<AND:$<COMPILE_LANGUAGE:C>,$<CONFIG:Release>>:-flto=auto;-ffat-lto-objects>)
  target_link_options(spp_options INTERFACE
    $<IF:$<AND:$<CONFIG:Release>,$<BOOL:$<TARGET_PROPERTY:SPP_ONE_UNIT>>>,-flto=auto,-fno-lto>)
endif()
