import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { build } from 'esbuild'
import type { Plugin } from 'esbuild'
import { checkout } from './paths.ts'

/** The name under which the executable embeds koffi's native half. */
export const KOFFI_ASSET = 'koffi.node'

/** Folders a native module may be mapped from; the first that is writable and not mounted noexec is used. */
const MAP_FOLDERS = ['/tmp', '/var/tmp', '/run', '/dev/shm']

/** open(2): O_TMPFILE on x86-64 and arm64, which Node does not name. */
const O_TMPFILE = 0o20_200_000

const fromCheckout = createRequire(path.join(checkout, 'package.json'))

/** Returns the path of koffi's native half for this machine's architecture. */
export function koffiBinary(): string {
  const koffi = createRequire(fromCheckout.resolve('koffi'))
  const folder = path.dirname(koffi.resolve(`@koromix/koffi-linux-${process.arch}`))
  return path.join(folder, `linux_${process.arch}`, 'koffi.node')
}

/**
 * Replaces koffi's platform package inside the executable. It maps the embedded library from a file without a name:
 * nothing is unpacked, nothing is left behind, and no process can put another library in its place.
 */
const NATIVE_SHIM = `
const fs = require('node:fs')
const { getRawAsset } = require('node:sea')
let failure
for (const folder of ${JSON.stringify(MAP_FOLDERS)}) {
  let fd
  try {
    fd = fs.openSync(folder, fs.constants.O_RDWR | ${O_TMPFILE}, 0o700)
    fs.writeSync(fd, new Uint8Array(getRawAsset('${KOFFI_ASSET}')))
    process.dlopen(module, '/proc/self/fd/' + fd)
    failure = undefined
    break
  } catch (error) {
    failure = error
  } finally {
    if (fd !== undefined) fs.closeSync(fd)
  }
}
if (failure !== undefined) throw failure
`

/** koffi's entry for ES modules hides its native require from a bundler, so this uses the other entry and the shim. */
const embedKoffi: Plugin = {
  name: 'embed-koffi',
  setup(context) {
    const wanted = `@koromix/koffi-linux-${process.arch}`
    context.onResolve({ filter: /^koffi$/ }, () => ({ path: fromCheckout.resolve('koffi') }))
    context.onResolve({ filter: /^@koromix\/koffi-/ }, (found) =>
      found.path === wanted
        ? { path: wanted, namespace: 'koffi-native' }
        : { path: found.path, external: true },
    )
    context.onLoad({ filter: /.*/, namespace: 'koffi-native' }, () => ({
      contents: NATIVE_SHIM,
      loader: 'js',
    }))
  },
}

/**
 * The native halves of ssh2 are optional: without them it uses Node's own ciphers. The build omits them, and the
 * executable must not look for files beside it.
 */
const leaveOutSshNatives: Plugin = {
  name: 'leave-out-ssh-natives',
  setup(context) {
    context.onResolve({ filter: /^cpu-features$|\/sshcrypto\.node$/ }, ({ path: wanted }) => ({
      path: wanted,
      namespace: 'left-out',
    }))
    context.onLoad({ filter: /.*/, namespace: 'left-out' }, ({ path: wanted }) => ({
      contents: `throw new Error(${JSON.stringify(`${wanted} is not in this executable`)})`,
      loader: 'js',
    }))
  },
}

/**
 * Fastify loads Node's HTTP/2 in any case, which takes milliseconds and memory; no listener of the daemon speaks it.
 */
const leaveOutHttp2: Plugin = {
  name: 'leave-out-http2',
  setup(context) {
    context.onResolve({ filter: /^node:http2$/ }, () => ({ path: 'node:http2', namespace: 'no-http2' }))
    context.onLoad({ filter: /.*/, namespace: 'no-http2' }, () => ({
      contents: 'module.exports = {}',
      loader: 'js',
    }))
  },
}

/** Information about an executable that is built into it. */
export interface BuildInfo {
  readonly version: string
  readonly commit: string
}

/** Returns the version in package.json. */
export function packageVersion(): string {
  const text = readFileSync(path.join(checkout, 'package.json'), 'utf8')
  return (JSON.parse(text) as { version: string }).version
}

/**
 * Bundles an entry and all its imports into one CommonJS file that needs no node_modules; returns the bundled files.
 * Only CommonJS starts from V8's code cache (25 ms sooner), so the entry cannot use top-level await.
 */
export async function bundle(entry: string, target: string, info: BuildInfo): Promise<string[]> {
  const result = await build({
    entryPoints: [entry],
    outfile: target,
    bundle: true,
    platform: 'node',
    target: `node${process.versions.node}`,
    format: 'cjs',
    define: {
      __VMHOSTD_VERSION__: JSON.stringify(info.version),
      __VMHOSTD_COMMIT__: JSON.stringify(info.commit),
      // Only a run from source looks for files beside it; the executable has assets.
      'import.meta.url': '"file:///embedded"',
    },
    plugins: [embedKoffi, leaveOutSshNatives, leaveOutHttp2],
    absWorkingDir: checkout,
    metafile: true,
    legalComments: 'none',
    // This halves the text to load; names stay, for stack traces.
    minifyWhitespace: true,
    minifySyntax: true,
    logLevel: 'error',
  })
  return Object.keys(result.metafile.inputs)
}
