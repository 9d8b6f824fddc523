import torch

import tiny

tiny.register()
torch.set_num_threads(1)
