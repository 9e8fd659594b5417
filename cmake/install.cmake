if(EXISTS ${PROJECT_SOURCE_DIR}/configs)
  install(DIRECTORY configs/ DESTINATION ${CMAKE_INSTALL_DATADIR}/spplan/configs)
endif()
