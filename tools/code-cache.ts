/*
 * V8's code of a program, made when the executable is built. V8 compiles a function when it is first called, so Node's
 * own cache for an executable lacks the functions that load the modules. Here they are compiled with the script.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import ts from 'typescript'
import type { StepLog } from './step.ts'

/**
 * V8's code cache has hashes in it, whose seed comes from this number. With --hash-seed the cache would be equal too,
 * but V8 uses a cache only under the flags that it was made with; this one does not count.
 * A running daemon has its own seed.
 */
export const FIXED_SEED = '--random-seed=1'

/**
 * Writes V8's code of a script; both are names in the working directory. The code depends on what the process has
 * loaded before, and on the paths of that. So the process loads nothing else, not even a file with these lines.
 */
const WRITE_CODE = `
const { readFileSync, writeFileSync } = require('node:fs')
const { Script } = require('node:vm')
const [script, code] = process.argv.slice(1)
writeFileSync(code, new Script(readFileSync(script, 'latin1')).createCachedData())
`

/** The functions of esbuild that take a module, as an object with one method that loads it. */
const WRAPPERS: ReadonlySet<string> = new Set(['__esm', '__commonJS'])

/**
 * Turns a bundle in CommonJS into a script, and writes it to `script` and V8's code of it to `code`; all three are
 * names in `folder`. The script is an expression for a function, as src/executable.ts calls it.
 */
export async function makeProgram(
  folder: string,
  { bundle, script, code }: { readonly bundle: string; readonly script: string; readonly code: string },
  log: Pick<StepLog, 'run'>,
): Promise<void> {
  const read = readFileSync(path.join(folder, bundle), 'latin1').replace(/^#!.*/, '')
  const text = `(function(require,module,exports,__filename,__dirname){${withLoadersCompiled(read)}\n})`
  writeFileSync(path.join(folder, script), text, 'latin1')
  await log.run([process.execPath, FIXED_SEED, '--eval', WRITE_CODE, script, code], { cwd: folder })
}

/**
 * Writes each method that loads a module as a function in parentheses. V8 compiles such a function together with what
 * is around it (v8.dev/blog/preparser, "PIFEs").
 */
function withLoadersCompiled(bundle: string): string {
  const file = ts.createSourceFile('bundle.js', bundle, ts.ScriptTarget.Latest, false, ts.ScriptKind.JS)
  let text = ''
  let at = 0
  const put = (position: number, inserted: string): void => {
    text += bundle.slice(at, position) + inserted
    at = position
  }
  for (const { name, end } of file.statements.flatMap(loadersIn)) {
    put(name.end, ':(function')
    put(end, ')')
  }
  return text + bundle.slice(at)
}

const loadersIn = (statement: ts.Statement): readonly ts.MethodDeclaration[] =>
  ts.isVariableStatement(statement)
    ? statement.declarationList.declarations.flatMap(({ initializer }) => loaderIn(initializer) ?? [])
    : []

function loaderIn(value: ts.Expression | undefined): ts.MethodDeclaration | undefined {
  if (value === undefined || !ts.isCallExpression(value) || !ts.isIdentifier(value.expression))
    return undefined
  const [module] = value.arguments
  if (!WRAPPERS.has(value.expression.text) || module === undefined) return undefined
  const loader = ts.isObjectLiteralExpression(module) ? module.properties[0] : undefined
  return loader !== undefined && ts.isMethodDeclaration(loader) ? loader : undefined
}
