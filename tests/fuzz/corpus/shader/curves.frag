#version 300 es
precision highp float;
uniform sampler2D u_image0;
in vec2 v_texCoord;
out vec4 fragColor;
uniform sampler2D u_curve0;
uniform sampler2D u_curve1;
void main() { vec4 a = texture(u_image0, v_texCoord); fragColor = vec4(texture(u_curve0, vec2(a.r, 0.5)).r, texelFetch(u_curve1, ivec2(int(a.g * 255.0 + 0.5), 0), 0).r, texture(u_curve0, vec2(a.b, 0.5)).g, 1.0); }
