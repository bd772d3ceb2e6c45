import { readFileSync } from 'node:fs'
import { getAsset, getRawAsset, isSea } from 'node:sea'
import { flushThreadBesideThis } from '../host/threads/file-flusher.ts'

/** Embedded files of the executable, with their paths for a daemon that runs from its sources. */
const SOURCES = {
  'scalar.js': '../../node_modules/@scalar/api-reference/dist/browser/standalone.js',
  'errors.md': '../../docs/errors.md',
  'console.js': '../../dist/page/console.js',
  'console.css': '../../dist/page/console.css',
  'vms.js': '../../dist/page/vms.js',
  'vms.css': '../../dist/page/vms.css',
  'config.example.toml': '../config/config.example.toml',
  'traffic.bpf.o': '../../dist/bpf/traffic.bpf.o',
} as const

export type AssetName = keyof typeof SOURCES

/** Returns the bytes of an embedded file; inside the executable this is a view, not a copy. */
export function readAsset(name: AssetName): Uint8Array {
  if (isSea()) return new Uint8Array(getRawAsset(name))
  return readFileSync(new URL(SOURCES[name], import.meta.url))
}

/**
 * Code for worker threads: embedded in the executable, otherwise the source. The first packs, the second stores an
 * image, the third flushes.
 */
export const packThreadSource = (): URL | string =>
  isSea() ? getAsset('pack-thread.js', 'utf8') : new URL('../host/staging/pack-thread.ts', import.meta.url)

export const imageThreadSource = (): URL | string =>
  isSea() ? getAsset('image-thread.js', 'utf8') : new URL('../host/images/image-thread.ts', import.meta.url)

export const flushThreadSource = (): URL | string =>
  isSea() ? getAsset('flush-thread.js', 'utf8') : flushThreadBesideThis()
