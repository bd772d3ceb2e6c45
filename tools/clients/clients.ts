import { readFileSync } from 'node:fs'
import path from 'node:path'
import { checkout } from '../paths.ts'
import { openapiDocument } from '../openapi-document.ts'
import { writeArchive } from './archive.ts'
import { writeGo } from './go/write-go.ts'
import { modelOf } from './model.ts'
import { writePython } from './python/write-python.ts'
import { writeTypescript } from './typescript/write-typescript.ts'
import type { Document } from './document.ts'

const LANGUAGES = ['go', 'python', 'typescript'] as const
type Language = (typeof LANGUAGES)[number]

/** Module of the client for Go. Users replace it by the folder into which they unpacked the archive. */
const GO_MODULE = 'example.org/vmhostd'

/** Makes the client for each language as an archive in this folder; returns the paths. */
export async function buildClients(
  folder: string,
  about: { version: string; date: Date },
): Promise<string[]> {
  const targets = LANGUAGES.map(async (language) => {
    const target = path.join(folder, `vmhostd-client-${language}-${about.version}.tar.gz`)
    const files = new Map([
      ...(await filesOf(language, about.version)),
      ['README.md', readFileSync(path.join(import.meta.dirname, language, 'README.md'), 'utf8')],
      ['LICENSE', readFileSync(path.join(checkout, 'LICENSE'), 'utf8')],
    ])
    // npm takes what is in a folder of this name; the other tools take any.
    const root = language === 'typescript' ? 'package' : `vmhostd-client-${language}-${about.version}`
    await writeArchive(target, { root, files, date: about.date })
    return target
  })
  return Promise.all(targets)
}

async function filesOf(language: Language, version: string): Promise<ReadonlyMap<string, string>> {
  if (language === 'typescript') return writeTypescript(version)
  const model = modelOf((await openapiDocument()) as Document)
  if (language === 'go')
    return new Map([
      ['vmhostd.go', writeGo(model)],
      ['go.mod', `module ${GO_MODULE}\n\ngo 1.24\n`],
    ])
  return new Map([
    ['vmhostd_client/__init__.py', writePython(model)],
    ['vmhostd_client/py.typed', ''],
    ['pyproject.toml', pyproject(version)],
  ])
}

const pyproject = (version: string): string => `[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "vmhostd-client"
version = "${version}"
description = "Client of vmhostd's API for controllers"
license = "Apache-2.0"
readme = "README.md"
requires-python = ">=3.11"

[tool.setuptools]
packages = ["vmhostd_client"]

[tool.setuptools.package-data]
vmhostd_client = ["py.typed"]
`
