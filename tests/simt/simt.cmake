# The kernels of devices, judged by the tests of tests/kernels in two builds besides that for the processor's own:
# kernels/<file>_gpu on a device (skipped where there is none), and kernels/<file>_simt, where the same sources of
# kernels/cuda are compiled for the processor (simt.h) and stand in the place of the device.
set(spp_device_tests attention attention_ref device gemm lse_merge ops ops_grad sizes)

include(CheckLanguage)
set(spp_simt OFF)
if(CMOCKA_FOUND AND NOT SPP_SANITIZE MATCHES "thread") # which would have to be told of every fiber
  check_language(CXX)
  if(CMAKE_CXX_COMPILER)
    enable_language(CXX)
    if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
      set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_C_COMPILER_LAUNCHER}") # a cache, where C has one
    endif()
    set(spp_simt ON)
  else()
    message(STATUS "spplan: C++ not used: no tests of GPU kernels without a GPU")
  endif()
endif()
if(spp_simt AND SPP_SANITIZE AND NOT CMAKE_CXX_COMPILER_ID STREQUAL CMAKE_C_COMPILER_ID)
  message(STATUS "spplan: the C++ compiler is another maker's: no tests of GPU kernels under sanitizers")
  set(spp_simt OFF)
endif()

if(spp_simt)
  file(GLOB spp_simt_kernels CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/cuda/*.cu)
  list(FILTER spp_simt_kernels EXCLUDE REGEX "/blas\\.cu$") # loads the library that blas.cc stands in for
  set_source_files_properties(${spp_simt_kernels} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-x;c++")
  add_library(spp_simt OBJECT ${spp_simt_kernels} simt/simt.cc simt/runtime.cc simt/blas.cc)
  target_include_directories(spp_simt BEFORE PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/simt)
  target_link_libraries(spp_simt PRIVATE spp_options)
  target_compile_features(spp_simt PRIVATE cxx_std_17)
  target_compile_options(spp_simt PRIVATE -Wall -Wextra -Wno-unknown-pragmas ${spp_sanitize_flags})
endif()

# spp_device_test(FILE KIND): test_<FILE>.c of tests/kernels over the device's row.
function(spp_device_test file kind)
  set(target test_kernels_${file}_${kind})
  add_executable(${target} kernels/test_${file}.c kernels/stage.c kernels/staged.c kernels/staged_attention.c ${ARGN})
  target_compile_definitions(${target} PRIVATE SPP_TEST_DEVICE)
  target_link_libraries(${target} PRIVATE ${spp_libraries} spp_options PkgConfig::CMOCKA)
  add_test(NAME kernels/${file}_${kind} COMMAND ${target})
  spp_test_properties(kernels/${file}_${kind} kernels)
endfunction()

foreach(file ${spp_device_tests})
  if(CMOCKA_FOUND AND SPP_CUDA_TARGET)
    spp_device_test(${file} gpu)
  endif()
  if(spp_simt)
    spp_device_test(${file} simt $<TARGET_OBJECTS:spp_simt>)
    set_target_properties(test_kernels_${file}_simt PROPERTIES LINKER_LANGUAGE CXX)
  endif()
endforeach()

# The engine over the same device: exec/device_gpu is built with the other tests of exec/. exec/nccl_mpi runs the third
# under mpirun: exec/backend_nccl.c over a stand-in for NCCL.
function(spp_engine_test target)
  add_executable(${target} exec/test_device_gpu.c $<TARGET_OBJECTS:spp_simt> ${ARGN})
  target_compile_definitions(${target} PRIVATE SPP_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_link_libraries(${target} PRIVATE ${spp_libraries} spp_options PkgConfig::CMOCKA)
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
endfunction()
if(spp_simt)
  spp_engine_test(test_exec_device_simt)
  add_test(NAME exec/device_simt COMMAND test_exec_device_simt)
  spp_test_properties(exec/device_simt exec)
endif()
if(spp_simt AND SPP_MPI_TARGET)
  spp_engine_test(test_exec_nccl_simt ${PROJECT_SOURCE_DIR}/exec/backend_nccl.c simt/nccl.cc)
  target_include_directories(test_exec_nccl_simt BEFORE PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/simt)
  target_compile_features(test_exec_nccl_simt PRIVATE cxx_std_17)
  target_compile_definitions(test_exec_nccl_simt PRIVATE SPP_TEST_NCCL spp_backend_nccl=test_backend_nccl)
endif()
