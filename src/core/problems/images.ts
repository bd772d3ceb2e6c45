import type { Entries } from './entry.ts'

/** Problems of images. */
export const images = {
  rejections: {
    image_in_use: {
      status: 409,
      title: 'A VM on this host is made from the image',
      meaning: 'VMs on this host are made from the image; `detail` says how many, and names some.',
      remedy: 'Delete them first. Images that no VM uses are removed without a request.',
      example: 'the image 9f86d081 is in use by the 2 VMs web-1, web-2 on this host: delete them first',
      writtenBy: ['src/owners/images/image-shelf.ts'],
      advice: ['vmhostctl image ls names all VMs that are made from each image in the pool'],
    },
  },
  faults: {
    disk_smaller_than_image: {
      retry: 'on-change',
      title: 'The disk is smaller than its image',
      meaning:
        'The desired disk is smaller than its root image. Fetching stopped at the size of the disk; the same URL is not asked again for an hour.',
      remedy: 'Make the disk larger, or delete the VM and create it with a larger `disk.size_mib`.',
      example: 'making the disk of VM web-1: its image has 3072 MiB, the disk 2048',
      writtenBy: ['src/host/disks/vm-disks.ts'],
    },
    image_source_refused: {
      retry: 'on-change',
      title: 'The image URL is not allowed on this host',
      meaning:
        'Where the image comes from turned out not to be allowed: a redirect, the address of a name, or a symbolic link that leads out of the local image directory; or the configuration changed since the request.',
      remedy:
        'Use https:, or change `[object_store]` or `storage.local_images_directory` in the configuration; then repeat the request with the URL. No setting allows a redirect from https: to http:.',
      example:
        'fetching image 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08: checking where it comes from: its URL is not a file, and this host takes nothing else',
      writtenBy: ['src/host/images/fetch-image.ts'],
    },
    image_too_large: {
      retry: 'on-change',
      title: 'The image is larger than this host takes',
      meaning:
        'The kernel or the initrd has more than 4 GiB unpacked, or a rootfs more than 1 TiB. Fetching stopped there; the same URL is not asked again for an hour.',
      remedy: 'Use a smaller image: create the VM again with that.',
      example:
        'fetching image 60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752: receiving it: the image has more than the 4096 MiB that this host takes',
      writtenBy: [
        'src/host/images/fetch-image.ts',
        'src/host/images/store-content.ts',
        'src/host/images/images.ts',
      ],
    },
    image_unsuitable: {
      retry: 'on-change',
      title: 'The image is of another kind than its part in the VM needs',
      meaning:
        'An image is plainly of another kind than its part in the VM needs: its first bytes are those of a kernel where a root disk is needed, or of a disk where a kernel is needed, or it is a qcow2 file, an empty file, or a packed root disk (zstd, gzip, xz, bzip2). Or the monitor of the VM does not read kernels of its format: Firecracker reads `vmlinux` on x86, and not `bzImage`. No disk is made of it and no guest is started. The error names the image and what it is.',
      remedy:
        'Stop the VM. Rebuild it (`POST …/rebuild`) if its root image is wrong, and give it another kernel or initrd (`PUT …/boot`) if one of these is. Convert a qcow2 file first: `qemu-img convert -O raw`. Unpack a packed root disk first, or pack it with zstd and give the digest of the unpacked disk. For a kernel that the monitor does not read, give its `vmlinux`, or create the VM with the other monitor.',
      example:
        'the rootfs image 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 is a Linux kernel for x86 (bzImage); stop the VM and rebuild it from another image',
      writtenBy: ['src/core/plan/plan-storage.ts', 'src/core/images/image-look.ts'],
    },
    image_unavailable: {
      retry: 'backoff',
      title: 'The image could not be fetched',
      meaning:
        'The image could not be fetched: no connection, an error answer, or it stalled; or it broke off or came too slowly, and asking for the rest of it did not help. Or the file in the local image directory is missing, cannot be read, or is not a regular file. The error has the status that the store answered, and its code if it gave one.',
      remedy:
        'Check the URL, and for a local image, that the URL names a regular file there. If the store answered 401, 403 or a code such as `ExpiredToken`, the signed URL may have expired: send the request that named it again with a fresh one.',
      example:
        'fetching image 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08: asking images.example.net: it answered 403 (AccessDenied)',
      writtenBy: [
        'src/host/images/remote-body.ts',
        'src/core/object-store/judge-answer.ts',
        'src/host/images/fetch-image.ts',
      ],
    },
    image_integrity_failed: {
      retry: 'backoff',
      title: 'The image is not what its digest says',
      meaning:
        'What was fetched does not have the digest that was announced, or is packed with zstd and cut, damaged, or followed by something. Nothing of it is kept.',
      remedy:
        'Correct the digest or the object behind the URL. The digest is of what is unpacked. After two such fetches in a row the host asks the same URL only every hour, and a fresh one at once.',
      example:
        'fetching image 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08: verifying it: the image has the SHA-256 60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752, not the 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 that was asked for',
      writtenBy: ['src/host/images/store-content.ts', 'src/host/images/fetch-image.ts'],
    },
  },
} as const satisfies Entries
