/* Reads which source files exist, what each one imports, and which other files of the checkout it names. */
import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs'
import path from 'node:path'
import { checkout } from './paths.ts'

export const SOURCE_FOLDERS = ['src', 'test', 'tools', 'lab', 'bench'] as const

/** A TypeScript file. Its path is relative to the checkout. */
export type Source = { readonly path: string; readonly text: string; readonly lines: readonly string[] }

/**
 * A module as a file names it. Types are gone when the file runs. A dynamic import is loaded when the code gets there.
 */
type Import = { readonly module: string; readonly isOnlyTypes: boolean; readonly isDynamic: boolean }

/** Returns all TypeScript sources below a folder of the checkout; declarations are not sources. */
export function readSources(folder: string): Source[] {
  return readdirSync(path.join(checkout, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts') && !entry.name.endsWith('.d.ts'))
    .map((entry) => {
      const file = path.relative(checkout, path.join(entry.parentPath, entry.name))
      const text = readFileSync(path.join(checkout, file), 'utf8')
      return { path: file, text, lines: text.split('\n') }
    })
}

const IMPORT =
  /^(?:import|export)( type\b)?[^'"]*?from '([^']+)'|^import '([^']+)'|\bimport\('([^']+)'\)(\.[A-Z])?/gm

/** Finds static and dynamic imports, and imports of types. */
export const importsOf = ({ text }: Source): Import[] =>
  [...text.matchAll(IMPORT)].map(([, type, from, bare, dynamic, member]) => ({
    module: from ?? bare ?? dynamic ?? '',
    isOnlyTypes: type !== undefined || member !== undefined,
    isDynamic: dynamic !== undefined,
  }))

const filesOf = (source: Source, imports: readonly Import[]): string[] =>
  imports
    .filter(({ module }) => module.startsWith('.'))
    .map(({ module }) => path.join(path.dirname(source.path), module))

/** Returns the files that a file imports, types included, relative to the checkout. */
export const importedFiles = (source: Source): string[] => filesOf(source, importsOf(source))

/** Returns the files that are loaded when this file runs. */
export const loadedFiles = (source: Source): string[] =>
  filesOf(
    source,
    importsOf(source).filter(({ isOnlyTypes }) => !isOnlyTypes),
  )

/** Returns the files that are loaded before this file runs. */
export const loadedFirst = (source: Source): string[] =>
  filesOf(
    source,
    importsOf(source).filter(({ isOnlyTypes, isDynamic }) => !isOnlyTypes && !isDynamic),
  )

const NAME = /['"`](?:\$\{import\.meta\.dirname\}\/)?([\w.-]+(?:\/[\w.-]+)*\.[a-z]+)['"`]/g

/**
 * Returns the files of the checkout that a file names in its strings, relative to itself, or in a test to the checkout.
 * It may read them, or start them as a program or a thread. Elsewhere a path from the top is only text for a reader.
 */
export function namedFiles(source: Source): string[] {
  const folder = path.dirname(source.path)
  const code = source.lines.filter((line) => !/^\s*(\/\/|\/?\*)/.test(line)).join('\n')
  const isTest = source.path.endsWith('.test.ts')
  return [...code.matchAll(NAME)]
    .flatMap(([, name = '']) => [path.join(folder, name), ...(isTest ? [path.normalize(name)] : [])])
    .filter((file) => !file.startsWith('..') && file !== source.path && isFile(path.join(checkout, file)))
}

const isFile = (file: string): boolean => existsSync(file) && statSync(file).isFile()
