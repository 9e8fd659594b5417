# What is installed: the program, its data, and libspplan (predict, plan, report, import, without execution) with
# headers, a pkg-config file and a CMake package.
include(CMakePackageConfigHelpers)

set(spp_public_folders base model planner report interop)

# One archive of all public folders. base/paths.c is compiled again: in an installed library the data files are
# those of the installation, not those of the source tree.
set(spp_objects "")
foreach(folder ${spp_public_folders})
  if(TARGET spp_${folder})
    list(APPEND spp_objects "$<FILTER:$<TARGET_OBJECTS:spp_${folder}>,EXCLUDE,/base/paths\\.c\\.>")
  endif()
endforeach()
configure_file(cmake/paths_installed.c.in generated/paths_installed.c @ONLY)
add_library(libspplan STATIC ${spp_objects} ${PROJECT_BINARY_DIR}/generated/paths_installed.c)
set_target_properties(libspplan PROPERTIES OUTPUT_NAME spplan EXPORT_NAME spplan POSITION_INDEPENDENT_CODE ON)
target_link_libraries(libspplan PRIVATE $<BUILD_INTERFACE:spp_options> PUBLIC PkgConfig::CJSON Threads::Threads)
target_include_directories(libspplan INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/spplan>)
set(spp_pc_requires libcjson)
if(SPP_LIBM)
  target_link_libraries(libspplan PUBLIC m)
endif()
if(TARGET spp_interop AND SPP_YAML_TARGET)
  target_link_libraries(libspplan PUBLIC PkgConfig::YAML)
  string(APPEND spp_pc_requires " yaml-0.1")
  set(spp_config_yaml "pkg_check_modules(YAML REQUIRED IMPORTED_TARGET yaml-0.1)")
endif()

install(TARGETS libspplan EXPORT spplanTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
foreach(folder ${spp_public_folders})
  if(TARGET spp_${folder})
    install(DIRECTORY ${folder}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/spplan/${folder}
            FILES_MATCHING PATTERN "*.h" PATTERN "json_scan.h" EXCLUDE)
  endif()
endforeach()

set(spp_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/spplan)
install(EXPORT spplanTargets NAMESPACE spplan:: DESTINATION ${spp_package_dir})
configure_package_config_file(cmake/spplanConfig.cmake.in generated/spplanConfig.cmake
  INSTALL_DESTINATION ${spp_package_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(generated/spplanConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/generated/spplanConfig.cmake
              ${PROJECT_BINARY_DIR}/generated/spplanConfigVersion.cmake DESTINATION ${spp_package_dir})

# The pkg-config file finds the prefix from its own place, so that an installation can be moved.
file(RELATIVE_PATH SPP_PC_UP ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(cmake/spplan.pc.in generated/spplan.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/generated/spplan.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

if(EXISTS ${PROJECT_SOURCE_DIR}/configs)
  install(DIRECTORY configs/ DESTINATION ${CMAKE_INSTALL_DATADIR}/spplan/configs)
endif()
if(EXISTS ${PROJECT_SOURCE_DIR}/LICENSE)
  install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
endif()

add_custom_target(uninstall
  COMMAND ${CMAKE_COMMAND} -DMANIFEST=${PROJECT_BINARY_DIR}/install_manifest.txt
          -P ${PROJECT_SOURCE_DIR}/cmake/uninstall.cmake)

# The manual page is what the built program says of itself; completions ask the program.
if(TARGET spplan)
  set(spp_man ${PROJECT_BINARY_DIR}/spplan.1)
  add_custom_command(OUTPUT ${spp_man} DEPENDS spplan VERBATIM
    COMMAND sh -c "\"$1\" --help-man >\"$2\"" sh $<TARGET_FILE:spplan> ${spp_man})
  add_custom_target(man ALL DEPENDS ${spp_man})
  install(FILES ${spp_man} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES cmake/completions/spplan.bash RENAME spplan
          DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES cmake/completions/_spplan DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES cmake/completions/spplan.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()
