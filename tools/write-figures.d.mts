export function writeFigures(text: string, read: (folder: string) => unknown[]): { text: string; wrong: string[] }
