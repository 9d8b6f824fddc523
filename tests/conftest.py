import tiny
import torch

tiny.register()
torch.set_num_threads(1)
