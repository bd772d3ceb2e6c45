import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import type { TestContext } from 'node:test'
import type { VmId } from '../../src/core/ids.ts'
import type { ImageRef } from '../../src/ports/storage.ts'
import { bzImageHead, ext4Head } from '../image-heads.ts'
import { isFault, promising, sha256Of } from './storage.contract.ts'
import type { StorageStage } from './storage.contract.ts'

const id = 'web-1' as VmId
const never = new AbortController().signal
const always = (): boolean => true

/** Promises of every pool about what an image is, and the part of a VM that it fits. */
export function imageKindsContract(
  name: string,
  set: (t: TestContext) => Promise<StorageStage>,
  options: { readonly skip?: string | false } = {},
): void {
  const promise = promising(name, set, options)
  const [ext4, kernel] = [ext4Head(), bzImageHead()]
  const formats = ['bzImage', 'ELF'] as const

  promise(
    'an image of the wrong kind for its part is refused, and every inspection reports it',
    async (stage) => {
      const { storage, offer } = stage
      const swapped: ImageRef[] = [
        { role: 'rootfs', sha256: sha256Of(kernel) },
        { role: 'kernel', sha256: sha256Of(ext4) },
      ]
      assert.deepEqual((await storage.inspect(id, swapped)).unfitImages, [])
      for (const content of [ext4, kernel])
        await storage.ensureImage(sha256Of(content), await offer(content), never)
      for (const image of swapped)
        await assert.rejects(storage.checkImage(image, formats), isFault('image_unsuitable'))
      const { unfitImages } = await storage.inspect(id, swapped)
      assert.deepEqual(
        unfitImages.map(({ role, look }) => [role, look.kind]),
        [
          ['rootfs', 'kernel'],
          ['kernel', 'disk'],
        ],
      )
      await storage.removeImage(sha256Of(kernel), always)
      const left = (await storage.inspect(id, swapped)).unfitImages
      assert.deepEqual(
        left.map(({ role }) => role),
        ['kernel'],
      )
    },
  )

  promise('an empty image is refused but as initrd, and a packed one only as rootfs', async (stage) => {
    const { storage, offer } = stage
    const [empty, packed] = [Buffer.alloc(0), gzipSync(ext4)]
    for (const content of [empty, packed])
      await storage.ensureImage(sha256Of(content), await offer(content), never)
    const refused: ImageRef[] = [
      { role: 'rootfs', sha256: sha256Of(empty) },
      { role: 'kernel', sha256: sha256Of(empty) },
      { role: 'rootfs', sha256: sha256Of(packed) },
    ]
    for (const image of refused)
      await assert.rejects(storage.checkImage(image, formats), isFault('image_unsuitable'))
    for (const role of ['kernel', 'initrd'] as const)
      await storage.checkImage({ role, sha256: sha256Of(packed) }, formats)
    await storage.checkImage({ role: 'initrd', sha256: sha256Of(empty) }, formats)
  })

  promise('an image is accepted in its own part, and in any part if its kind is uncertain', async (stage) => {
    const { storage, offer } = stage
    const unclear = randomBytes(100_000)
    const fit: ImageRef[] = [
      { role: 'rootfs', sha256: sha256Of(ext4) },
      { role: 'kernel', sha256: sha256Of(kernel) },
      { role: 'initrd', sha256: sha256Of(unclear) },
      { role: 'rootfs', sha256: sha256Of(unclear) },
      { role: 'kernel', sha256: sha256Of(unclear) },
    ]
    for (const content of [ext4, kernel, unclear])
      await storage.ensureImage(sha256Of(content), await offer(content), never)
    for (const image of fit) await storage.checkImage(image, formats)
    await assert.rejects(
      async () => storage.checkImage({ role: 'kernel', sha256: sha256Of(kernel) }, ['ELF']),
      isFault('image_unsuitable'),
    )
    const { unfitImages, kernelLook } = await storage.inspect(id, fit)
    assert.deepEqual(unfitImages, [])
    assert.equal(kernelLook?.format, 'bzImage')
    assert.equal((await storage.inspect(id, fit.slice(2))).kernelLook, undefined)
  })
}
