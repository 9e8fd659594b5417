# Sources of a folder, without those whose library is absent. A file belongs to a feature by its name:
# exec/backend_mpi*.c, exec/backend_nccl*, kernels/cuda/*.cu, and everything in tui/.
function(spp_sources out folder)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.c)
  file(GLOB gpu_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/cuda/*.cu
       ${PROJECT_SOURCE_DIR}/${folder}/backend_nccl*.cu)
  if(SPP_CUDA_TARGET)
    list(APPEND sources ${gpu_sources})
  endif()
  if(NOT SPP_MPI_TARGET)
    list(FILTER sources EXCLUDE REGEX "/backend_mpi[^/]*$")
  endif()
  if(NOT SPP_NCCL_TARGET)
    list(FILTER sources EXCLUDE REGEX "/backend_nccl[^/]*$")
  endif()
  if(folder STREQUAL "tui" AND NOT SPP_CURSES_TARGET)
    set(sources "")
  endif()
  set(${out} ${sources} PARENT_SCOPE)
endfunction()

# A file name that ends in an instruction set is compiled for it; it is called only after a run-time check.
function(spp_simd_flags)
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    return()
  endif()
  # -Wno-sign-conversion: at -O0 the compiler's own mask intrinsics are macros that trip it.
  set(avx512 "-Wno-sign-conversion;-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mavx2;-mfma")
  foreach(source ${ARGN})
    if(source MATCHES "_avx2\\.c$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma")
    elseif(source MATCHES "_avx512\\.c$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${avx512}")
    elseif(source MATCHES "_avx512bf16\\.c$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${avx512};-mavx512bf16")
    endif()
  endforeach()
endfunction()

set_property(GLOBAL PROPERTY SPP_LIBRARIES "")

# spp_folder(NAME DEPENDS...): static library spp_NAME; a folder without sources yet is skipped, and so is a
# dependency on it.
function(spp_folder folder)
  spp_sources(sources ${folder})
  if(NOT sources)
    return()
  endif()
  spp_simd_flags(${sources})
  add_library(spp_${folder} STATIC ${sources})
  set_target_properties(spp_${folder} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(spp_${folder} PRIVATE spp_options PUBLIC Threads::Threads)
  if(folder MATCHES "^(base|model|planner)$")
    target_compile_options(spp_${folder} PRIVATE ${spp_one_unit_options})
  endif()
  if(SPP_LIBM)
    target_link_libraries(spp_${folder} PUBLIC ${SPP_LIBM})
  endif()
  foreach(depends ${ARGN})
    if(TARGET spp_${depends})
      target_link_libraries(spp_${folder} PUBLIC spp_${depends})
    endif()
  endforeach()
  set_property(GLOBAL APPEND PROPERTY SPP_LIBRARIES spp_${folder})
endfunction()

# spp_program(FOLDER): the executable spplan, when its sources exist. All but main.c is a library, so that tests see it.
function(spp_program folder)
  spp_folder(${folder} ${ARGN})
  if(NOT TARGET spp_${folder})
    return()
  endif()
  get_target_property(sources spp_${folder} SOURCES)
  list(FILTER sources EXCLUDE REGEX "/main\\.c$")
  set_target_properties(spp_${folder} PROPERTIES SOURCES "${sources}")
  add_executable(spplan ${PROJECT_SOURCE_DIR}/${folder}/main.c)
  # In the build folder CMake pads the run path of what is installed with a colon, which the loader reads as the folder
  # the program is started in: it must look for no library there.
  set_target_properties(spplan PROPERTIES SPP_ONE_UNIT ON BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH_USE_LINK_PATH ON)
  target_link_libraries(spplan PRIVATE spp_${folder} spp_options)
  if(SPP_STATIC_CXX) # CUDA alone asks for it: to load it takes a millisecond, a third of a short command
    target_link_options(spplan PRIVATE -static-libstdc++ -static-libgcc)
  endif()
  install(TARGETS spplan RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()

# Where data files are found by a program that is not installed; base/paths.c tells the rest.
set_source_files_properties(${PROJECT_SOURCE_DIR}/base/paths.c PROPERTIES
  COMPILE_DEFINITIONS "SPP_CONFIG_DIR=\"${PROJECT_SOURCE_DIR}/configs\"")
