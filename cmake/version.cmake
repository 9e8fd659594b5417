# base/version.c says which version and commit it was built from.
set(spp_commit_header ${PROJECT_BINARY_DIR}/generated/base/commit.h)
add_custom_target(spp_commit BYPRODUCTS ${spp_commit_header}
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DOUTPUT=${spp_commit_header}
          -P ${PROJECT_SOURCE_DIR}/cmake/commit.cmake)
add_dependencies(spp_base spp_commit)
set_source_files_properties(${PROJECT_SOURCE_DIR}/base/version.c PROPERTIES
  COMPILE_DEFINITIONS "SPP_VERSION=\"${PROJECT_VERSION}\""
  OBJECT_DEPENDS ${spp_commit_header})
