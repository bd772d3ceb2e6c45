/** Real pools for host tests, on file systems of their own in a loop-mounted file. */
import { randomUUID } from 'node:crypto'
import { chmod, mkdir, mkdtemp, rename, rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { TestContext } from 'node:test'
import { SignedUrl } from '../../src/core/outbound/signed-url.ts'
import type { ImageSource } from '../../src/core/outbound/image-source.ts'
import type { UserId } from '../../src/core/ids.ts'
import { run } from './run.ts'
import { Pool } from '../../src/host/storage/pool.ts'
import type { PoolOptions } from '../../src/host/storage/pool.ts'
import { markPool } from '../../src/host/pool/pool-marker.ts'
import { silentLog } from '../../src/log/log.ts'
import type { StorageStage } from '../contract/storage.contract.ts'
import { atEnd } from '../contract/at-end.ts'
import { until } from '../contract/until.ts'

export type FileSystem = 'xfs' | 'ext4'

/** XFS refuses to make smaller file systems. */
const MIB = 320
const FORMAT = {
  xfs: ['mkfs.xfs', '-q', '-m', 'reflink=1'],
  ext4: ['mkfs.ext4', '-q', '-F', '-m', '0'],
} as const

export type PoolStage = StorageStage & {
  readonly storage: Pool
  /** Mount point of the file system. */
  readonly mountPoint: string
  readonly directory: string
  readonly imagesDirectory: string
  readonly reflink: boolean
  readonly reopen: (options?: Partial<PoolOptions>) => Pool
  readonly mount: (...options: string[]) => Promise<void>
  readonly unmount: () => Promise<void>
}

/** Makes a pool on a new file system, with a local image directory beside it. */
export async function poolOn(fileSystem: FileSystem, t: TestContext): Promise<PoolStage> {
  const base = await mkdtemp(join(tmpdir(), 'vmh-pool-'))
  await chmod(base, 0o755)
  const [file, mountPoint, imagesDirectory] = ['fs.img', 'mnt', 'sources'].map((name) =>
    join(base, name),
  ) as [...[string, string, string]]
  await Promise.all([mkdir(mountPoint), mkdir(imagesDirectory), writeFile(file, '')])
  await truncate(file, MIB * 1024 * 1024)
  await run([...FORMAT[fileSystem], file])
  const mount = async (...options: string[]): Promise<void> => {
    await run(['mount', '-o', ['loop', ...options].join(), file, mountPoint])
  }
  // Status 32 says that it is not mounted, or busy: the kernel closes the files of a monitor some time after its unit
  // ended.
  const unmount = async (): Promise<void> => {
    await until(
      async () => {
        await run(['umount', mountPoint], { okCodes: [0, 32] })
        return (await run(['mountpoint', '-q', mountPoint], { okCodes: [0, 1, 32] })).code
      },
      (code) => code !== 0,
    )
  }
  atEnd(t, () => rm(base, { recursive: true }))
  await mount()
  atEnd(t, unmount)
  const directory = join(mountPoint, 'pool')
  const { poolId, reflink } = await markPool(directory)
  const reopen = (options: Partial<PoolOptions> = {}): Pool =>
    new Pool({ directory, poolId, localImagesDirectory: imagesDirectory, log: silentLog, ...options })
  const marker = join(directory, 'vmhostd-pool.json')
  return {
    storage: reopen(),
    userId: 200_001 as UserId,
    offer: async (content) => sourceIn(imagesDirectory, content),
    setInSight: (inSight) => (inSight ? rename(`${marker}.away`, marker) : rename(marker, `${marker}.away`)),
    ...{ mountPoint, directory, imagesDirectory, reflink, reopen, mount, unmount },
  }
}

async function sourceIn(directory: string, content: Uint8Array): Promise<ImageSource> {
  const path = join(directory, randomUUID())
  await writeFile(path, content)
  return { url: new SignedUrl(pathToFileURL(path).href) }
}
