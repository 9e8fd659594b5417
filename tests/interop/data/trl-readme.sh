# Source: trl 1.16.0 (PyPI), README.md, "Command Line Interface"
trl sft --model_name_or_path Qwen/Qwen2.5-0.5B \
    --dataset_name trl-lib/Capybara \
    --output_dir Qwen2.5-0.5B-SFT
