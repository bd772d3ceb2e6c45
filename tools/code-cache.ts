/*
 * V8's code cache of a program, made after a start of it. The cache that Node makes for an executable has only the code
 * that is compiled when the script is read: functions that the start runs would be compiled at each start.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { Script } from 'node:vm'

/** The names under which the executable embeds its program and the code of it. */
export const PROGRAM_ASSET = 'program.js'
export const CODE_ASSET = 'program.cache'

/**
 * V8's code cache has hashes in it, whose seed comes from this number. With --hash-seed the cache would be equal too, but
 * V8 uses a cache only under the flags that it was made with; this one does not count. A running daemon has its own seed.
 */
export const FIXED_SEED = '--random-seed=1'

/** The script that the executable runs: it loads the program with its code. */
export const LOADER = `
const { getRawAsset } = require('node:sea')
const { Script } = require('node:vm')
const asset = (name) => Buffer.from(getRawAsset(name))
const script = new Script(asset('${PROGRAM_ASSET}').latin1Slice(), { filename: __filename, cachedData: asset('${CODE_ASSET}') })
if (script.cachedDataRejected) process.emitWarning('V8 does not take the code cache of this executable')
script.runInThisContext()(exports, require, module, __filename, __dirname)
`

/** Embedded files by name. */
type Assets = Readonly<Record<string, string>>

/** A program to start, which ends by itself, and what it is given. */
type Start = { readonly program: string; readonly args: readonly string[]; readonly assets: Assets }

/**
 * Wraps a bundle in CommonJS, in ASCII, into an expression that {@link LOADER} calls. It has the five names that Node gives to
 * each such module (node:module, "The module wrapper"); libraries use all of them.
 */
export const programOf = (bundle: string): string =>
  `(function(exports,require,module,__filename,__dirname){${bundle.replace(/^#!.*/, '')}\n})`

/**
 * What V8 does at moments that no seed decides, and notes in functions: it compiles often used ones further, and drops code
 * that was not used for a while. A cache is refused under other flags, so they are as usual again when it is made.
 */
const BY_TIME = ['sparkplug', 'maglev', 'opt', 'flush-bytecode'] as const

/** Starts a program in a process of its own, with these arguments, and writes the code that it ran to `target`. */
export function makeCodeCache(start: Start, target: string): void {
  const argv = [FIXED_SEED, '--no-warnings', import.meta.filename, JSON.stringify(start), target]
  execFileSync(process.execPath, argv, { stdio: ['ignore', 'ignore', 'inherit'], env: { PATH: '/usr/bin' } })
}

if (import.meta.main) {
  for (const flag of BY_TIME) setFlagsFromString(`--no-${flag}`)
  const [start = '', target = ''] = process.argv.slice(2)
  const { program, args, assets } = JSON.parse(start) as Start
  const script = new Script(readFileSync(program, 'latin1'), { filename: path.basename(program) })
  process.argv.splice(2, Infinity, ...args)
  const outer = createRequire(import.meta.url)
  const require = (name: string): unknown => (name === 'node:sea' ? embedded(assets) : outer(name))
  const run = script.runInThisContext() as (...given: unknown[]) => void
  run({}, require, {}, path.resolve(program), path.dirname(path.resolve(program)))
  process.once('beforeExit', () => {
    for (const flag of BY_TIME) setFlagsFromString(`--${flag}`)
    writeFileSync(target, script.createCachedData())
  })
}

/** Returns what node:sea is inside the executable. */
function embedded(assets: Assets): object {
  const read = (name: string): Buffer => readFileSync(assets[name] ?? name)
  return {
    isSea: () => true,
    getAsset: (name: string) => read(name).toString(),
    getRawAsset: (name: string) => new Uint8Array(read(name)).buffer,
  }
}
