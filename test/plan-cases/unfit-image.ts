import assert from 'node:assert/strict'
import { imagesOf } from '../../src/core/desired.ts'
import { recordOf } from '../record.ts'
import type { ImageLook, KernelFormat, UnfitImage } from '../../src/core/world/world.ts'
import type { Words } from './words.ts'

const LOOKS: Readonly<Record<string, ImageLook>> = {
  kernel: { kind: 'kernel', words: 'a kernel' },
  disk: { kind: 'disk', words: 'a file system' },
  qcow2: { kind: 'qcow2', words: 'a qcow2 file' },
}

/** Reads a word like `kernel-format=bzImage`. */
export function kernelLookOf(words: Words): ImageLook | undefined {
  const format = words.after('kernel-format=')
  return format === undefined
    ? undefined
    : { kind: 'kernel', format: format as KernelFormat, words: 'a kernel' }
}

/** Reads words like `rootfs-is=kernel`. */
export const unfitImagesOf = (words: Words): UnfitImage[] =>
  imagesOf(recordOf().desired.image).flatMap(({ role, sha256 }) => {
    const name = words.after(`${role}-is=`)
    if (name === undefined) return []
    const look = LOOKS[name]
    assert.ok(look !== undefined, `no image looks like ${name}`)
    return [{ role, sha256, look }]
  })
