/**
 * Questions of a guest to a terminal (ECMA-48; xterm's ctlseqs): ENQ, its attributes (also DECID and DECREQTPARM),
 * status and the cursor's place, its version, modes, window and keyboard; OSC with a question mark; DCS for
 * capabilities and settings.
 */
const QUESTIONS = new RegExp(
  [
    String.raw`\x05`,
    String.raw`\x1bZ`,
    String.raw`\x1b\[[0-?]*[cnx]`,
    String.raw`\x1b\[>[0-?]*q`,
    String.raw`\x1b\[[0-?]*\$p`,
    String.raw`\x1b\[(?:1[1-9]|2[01])(?:;[0-9;]*)?t`,
    String.raw`\x1b\[\?u`,
    String.raw`\x1b\][^\x07\x1b]*\?(?:\x07|\x1b\\)`,
    String.raw`\x1bP[+$]q[^\x1b]*\x1b\\`,
  ].join('|'),
  'g',
)

/**
 * Removes questions from history before it is shown. They were answered long ago: a second answer of the terminal would
 * become input of the program that reads there now.
 */
export const withoutQuestions = (history: Uint8Array): Uint8Array =>
  Buffer.from(Buffer.from(history).toString('latin1').replaceAll(QUESTIONS, ''), 'latin1')
