import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { zstdDecompressSync } from 'node:zlib'

/** A kernel module as the guest's initrd has it: uncompressed, because busybox's insmod reads nothing else. */
export interface KernelModule {
  readonly name: string
  readonly content: Buffer
}

/** Decompresses `.xz`; Node has no xz of its own. */
export type Unxz = (packed: Buffer) => Promise<Buffer>

/**
 * Finds kernel modules by name below an unpacked kernel package. Returns them with all their dependencies, in load
 * order. Leaves out a name that is built into the kernel.
 */
export async function collectModules(
  kernel: string,
  names: readonly string[],
  unxz: Unxz,
): Promise<KernelModule[]> {
  const files = moduleFiles(kernel)
  const found = new Map<string, KernelModule>()
  const collect = async (name: string): Promise<void> => {
    const file = files.get(name)
    if (file === undefined || found.has(name)) return
    const content = await unpack(file, unxz)
    for (const dependency of dependencies(content)) await collect(dependency)
    found.set(name, { name, content })
  }
  for (const name of names) await collect(name)
  return [...found.values()]
}

function moduleFiles(kernel: string): Map<string, string> {
  const files = new Map<string, string>()
  for (const entry of readdirSync(kernel, { recursive: true, withFileTypes: true })) {
    const match = /^(.+)\.ko(\.xz|\.zst)?$/.exec(entry.name)
    if (match?.[1] === undefined) continue
    files.set(match[1].replaceAll('-', '_'), path.join(entry.parentPath, entry.name))
  }
  return files
}

async function unpack(file: string, unxz: Unxz): Promise<Buffer> {
  const content = readFileSync(file)
  if (file.endsWith('.xz')) return unxz(content)
  return file.endsWith('.zst') ? zstdDecompressSync(content) : content
}

/** Reads the dependencies of a module from its `.modinfo` section, as `depends=a,b` between zero bytes. */
function dependencies(content: Buffer): string[] {
  const key = Buffer.from('\0depends=')
  const at = content.indexOf(key)
  if (at < 0) return []
  const text = content.toString('latin1', at + key.length, content.indexOf(0, at + key.length))
  return text.split(',').filter(Boolean)
}
