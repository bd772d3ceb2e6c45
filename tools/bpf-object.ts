import { copyFileSync, existsSync, mkdirSync, renameSync } from 'node:fs'
import path from 'node:path'
import { ensurePackages } from './apt.ts'
import { hashInputs } from './hash.ts'
import { withLock } from './lock.ts'
import { cachePath, checkout } from './paths.ts'
import { run, versionOf } from './process.ts'
import { publish } from './publish.ts'
import { step } from './step.ts'
import type { StepLog } from './step.ts'

/** The program for the kernel, for an executable that embeds it and for a daemon that runs from its sources. */
export const BPF_OBJECT = 'dist/bpf/traffic.bpf.o'

const SOURCE = 'bpf/traffic.bpf.c'
export const CLANG = '/usr/bin/clang'
const NEEDS = [
  { name: 'clang', probe: CLANG, why: 'it compiles the program that runs in the kernel' },
  { name: 'libbpf-dev', probe: '/usr/include/bpf/bpf_helpers.h', why: 'headers of that program' },
  { name: 'linux-libc-dev', probe: '/usr/include/linux/bpf.h', why: 'headers of that program' },
]

/** Debian's names for the header folders of one architecture. */
const TRIPLET = { x64: 'x86_64-linux-gnu', arm64: 'aarch64-linux-gnu' }

/** Compiles the program for the kernel into `dist/`; takes an unchanged one from the cache. */
export async function ensureBpfObject(): Promise<void> {
  await ensurePackages(NEEDS)
  const folder = path.join(cachePath('bpf'), await objectKey())
  const compiled = path.join(folder, path.basename(BPF_OBJECT))
  await withLock('bpf', async () => {
    if (existsSync(folder)) return
    await step(`compile ${SOURCE}`, (log) =>
      publish(folder, async (building) => {
        await compile(path.join(building, path.basename(BPF_OBJECT)), log)
      }),
    )
  })
  const target = path.join(checkout, BPF_OBJECT)
  mkdirSync(path.dirname(target), { recursive: true })
  copyFileSync(compiled, `${target}.${process.pid}.new`)
  renameSync(`${target}.${process.pid}.new`, target)
}

/** Returns the key of the object in the cache: the compiler and the headers may be those of another version. */
export async function objectKey(clang = CLANG): Promise<string> {
  const inputs = [SOURCE, 'tools/bpf-object.ts'].map((name) => path.join(checkout, name))
  // What does not compile has a key too: the compiler says why later.
  const { stdout } = await run([clang, ...flags(), '-E', '-P', SOURCE], { cwd: checkout })
  return hashInputs(inputs, [await versionOf(clang), stdout, process.arch])
}

const compile = (target: string, log: StepLog): Promise<string> =>
  log.run([CLANG, ...flags(), '-c', SOURCE, '-o', target], { cwd: checkout })

const flags = (): string[] => [
  ...['-target', 'bpf', '-O2'],
  // The loader needs the map types, which come with the debug information. Equal sources give equal bytes in any
  // folder.
  ...['-g', `-ffile-prefix-map=${checkout}=.`],
  // Allows atomics that return the old value; Linux 5.12.
  '-mcpu=v3',
  ...['-Wall', '-Wextra', '-Werror'],
  ...['-isystem', `/usr/include/${TRIPLET[process.arch === 'arm64' ? 'arm64' : 'x64']}`],
]
