import { readdirSync } from 'node:fs'
import path from 'node:path'
import { ensurePackages } from '../tools/apt.ts'
import { CLANG } from '../tools/bpf-object.ts'
import { versionOf } from '../tools/process.ts'
import type { StepLog } from '../tools/step.ts'

const SOURCES = path.join(import.meta.dirname, 'guest/bare')

const LINKER = '/usr/bin/ld'
const NEEDS = [
  { name: 'clang', probe: CLANG, why: 'it compiles the bare guest' },
  { name: 'binutils', probe: LINKER, why: 'it links the bare guest' },
]

/** Whether machines of this kind run the bare guest. */
const isBuilt = process.arch === 'x64'

/** Installs what compiles the bare guest, and returns the versions of that; without one of its machines, nothing. */
export async function ensureCompiler(): Promise<string> {
  if (!isBuilt) return ''
  await ensurePackages(NEEDS)
  return (await versionOf(CLANG)) + (await versionOf(LINKER))
}

/** Compiles the bare guest into a folder, as `bare.elf`. */
export async function buildBareGuest(folder: string, log: StepLog): Promise<void> {
  if (!isBuilt) return
  const sources = readdirSync(SOURCES).filter((name) => /\.[cS]$/.test(name))
  const argv = [
    ...[CLANG, '-std=c11', '-O2', '-Wall', '-Wextra', '-Werror'],
    ...['-ffreestanding', '-fno-pic', '-fno-stack-protector', '-fno-asynchronous-unwind-tables'],
    // An interrupt may come at any place of the stack, and the emulation of instructions knows the general ones.
    ...['-mno-red-zone', '-mgeneral-regs-only'],
    ...['-nostdlib', '-static', '-Wl,-T,link.ld,--build-id=none,-z,noexecstack'],
    ...[...sources, '-o', path.join(folder, 'bare.elf')],
  ]
  await log.run(argv, { cwd: SOURCES })
}
