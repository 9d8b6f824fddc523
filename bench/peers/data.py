"""The same augmentation as torchvision does it: image by image, in the two workers of a DataLoader."""

import sys

from torch.utils.data import DataLoader

from bench.peer import serve
from grcl.networks.torchvision_schemas import import_torchvision


def main(folder: str, size: int, batch_size: int) -> None:
    import_torchvision()
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

    serve(epoch=epoch)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
