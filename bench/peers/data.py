"""The same augmentation as torchvision does it, image by image in the two workers of a DataLoader, and as kornia does,
on whole batches of images in memory."""

import sys

import torch
from torch.utils.data import DataLoader

from bench.peer import serve
from grcl.networks.torchvision_schemas import import_torchvision


def main(folder: str, size: int, batch_size: int) -> None:
    import_torchvision()
    from kornia import augmentation
    from torchvision import datasets, transforms

    radius = max(1, size // 20)
    steps = transforms.Compose(
        [
            transforms.ColorJitter(0.4, 0.4, 0.4, 0.1),
            transforms.RandomApply([transforms.GaussianBlur(2 * radius + 1, (0.1, 2.0))], p=0.5),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
        ]
    )
    images = datasets.ImageFolder(folder, steps)
    loader = DataLoader(images, batch_size, shuffle=True, num_workers=2, drop_last=True)

    def epoch() -> None:
        for _ in loader:
            pass

    torch.set_num_threads(1)
    pixels = torch.stack([transforms.functional.pil_to_tensor(image) for image, _ in datasets.ImageFolder(folder)])
    in_batches = augmentation.AugmentationSequential(
        augmentation.ColorJitter(0.4, 0.4, 0.4, 0.1, p=1.0),
        augmentation.RandomGaussianBlur((2 * radius + 1, 2 * radius + 1), (0.1, 2.0), p=0.5),
        augmentation.RandomHorizontalFlip(p=0.5),
    )

    def epoch_by_kornia() -> None:
        for places in torch.randperm(len(pixels)).split(batch_size):
            in_batches(pixels[places].float() / 255)

    serve(epoch=epoch, kornia=epoch_by_kornia)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
