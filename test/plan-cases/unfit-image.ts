import assert from 'node:assert/strict'
import { imagesOf } from '../../src/core/desired.ts'
import { recordOf } from '../record.ts'
import type { ImageLook, UnfitImage } from '../../src/core/world/world.ts'
import type { ImageRole } from '../../src/core/desired.ts'

const LOOKS: Readonly<Record<string, ImageLook>> = {
  kernel: { kind: 'kernel', words: 'a kernel' },
  disk: { kind: 'disk', words: 'a file system' },
  qcow2: { kind: 'qcow2', words: 'a qcow2 file' },
}

/** Reads a word like `rootfs-is=kernel`. Returns no image for any other word. */
export function unfitImageOf(word: string): UnfitImage[] {
  const [, role, name = ''] = /^(\w+)-is=(\w+)$/.exec(word) ?? []
  if (role === undefined) return []
  const look = LOOKS[name]
  assert.ok(look !== undefined, `no image looks like ${name}`)
  const sha256 = imagesOf(recordOf().desired.image).find((image) => image.role === role)?.sha256
  assert.ok(sha256 !== undefined, `the VM has no ${role} image`)
  return [{ role: role as ImageRole, sha256, look }]
}
